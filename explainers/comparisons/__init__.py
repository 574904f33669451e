"""Maps of one explanation held against each other: which methods agree, and which label wins each patch."""
