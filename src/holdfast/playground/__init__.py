"""Break it yourself: what `holdfast up` offers on its front page, and nothing else does."""
