"""The host side of truemem: what a developer runs on their own machine."""
