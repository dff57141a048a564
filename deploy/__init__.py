"""What `sam build` and containers need beside template.yaml."""
