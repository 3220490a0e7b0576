"""Models that no package which pip installs has, and adapters to those that packages have."""
