"""Calls of AWS through boto3: Lambda, CloudWatch and CloudWatch Logs."""
