"""Words and weights: segmentation and TF-IDF keywords. Pure; imports nothing of ours."""
