"""What every room needs: text from outside, problems told in one line, numbers in sentences, exit codes. No figures."""
