"""What `sam build` and containers need beside template.yaml; and what a checkout writes: tables of docs,
dashboards, a release."""
