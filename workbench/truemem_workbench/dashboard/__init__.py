"""One CloudFormation template with a dashboard and alarms for functions of the user."""
