"""A trial of one's own: train, then score by playing greedily. Used by ``tuned-by-evaluation.toml``."""

from whorl.tuning.trial import Trial


def train(trial: Trial) -> float:
    """One trial; what it returns is its score."""
    with trial.trainer() as trainer:
        while not trainer.done:
            trainer.step()
        return trainer.evaluate(episodes=20)["return_mean"]
