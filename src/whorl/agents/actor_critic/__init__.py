"""What PPO, A2C and IMPALA share: acting, preparing a batch, summing and applying gradients."""
