"""A proof without a model: answers to questions are kept once, and many small sets of labels are drawn and fitted on."""
