"""Where processes live and how bytes move. Engines never see a reward or a loss."""
