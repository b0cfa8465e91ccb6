"""Differences that are planted into upstream, one at a time, for the probes to find."""

from tests.plants import ddpg, dqn, ppo, sac, td3

PLANTS = (*ppo.PLANTS, *td3.PLANTS, *sac.PLANTS)
LATER_PLANTS = (*ddpg.PLANTS, *dqn.PLANTS)
"""Those of algorithms that joined."""
