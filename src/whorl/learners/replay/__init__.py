"""Learning from replays in processes of their own: what such a role does, and how a learner draws from several."""
