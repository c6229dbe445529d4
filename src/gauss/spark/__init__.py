"""What any part of Gauss needs to run on Spark."""
