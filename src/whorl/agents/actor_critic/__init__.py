"""What PPO and A2C share: acting, preparing a batch, summing and applying gradients."""
