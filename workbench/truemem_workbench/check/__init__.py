"""`truemem check`: does a function keep its memory within limits? An exit code for CI."""
