"""Ask a model about one input of which only some patches, word pieces or atoms are kept: the removal of tokens.

The option ``how`` says how they are removed. The default:

* patches are ``removed`` where a model allows it: its blocks and its head must not know where a token lay, but for what the token itself
  says (its position was added to it) and for rotary positions, which go with it. Then the rows of the other patches are dropped at x^1.
  Where the model does know (windows, relative positions, mixing over tokens), patches are ``painted`` in the mean colour.
* word pieces, of texts and of prompts, are ``removed``: left out of ``input_ids``, and the text closes up.
* atoms are ``removed``: no attention is paid to their tokens. What the others know of the molecule stays: how many neighbours an atom has,
  and how far two atoms are apart along bonds, through those that are gone too.
* patches and word pieces of a picture with a prompt are ``removed`` in the same way: no attention is paid to them, and the others keep
their
  positions. The last token of the prompt, after which the answer begins, keeps what it is itself.

The others: ``zeroed`` sets the embedded tokens of patches or atoms to zero (LibraGrad, for models that cannot drop tokens);
``black`` paints the patches black; ``masked`` puts the tokenizer's mask token in the place of a word piece, ``unknown`` its token for
unknown words (Ali et al. 2022); positions stay. ``ways.py`` has them all.
"""
