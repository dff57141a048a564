"""AWS's side: the Extensions and Telemetry APIs, and the runtime's connection in exact mode."""
