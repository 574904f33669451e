"""Small trained models that ship with Vitrine, their architectures, labels and sample inputs, and the data sets that are drawn."""
