"""What Lambda's own kernel allows: a function that records it, and a client that deploys, asks and removes it."""
