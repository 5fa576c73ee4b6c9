"""What runs inside the process of a watched program. torch is imported by the program, never by this package first."""
