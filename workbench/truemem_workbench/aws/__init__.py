"""What talks to AWS, through boto3: Lambda, CloudWatch and CloudWatch Logs."""
