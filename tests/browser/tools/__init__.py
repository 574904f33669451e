"""What opens under the plates."""
