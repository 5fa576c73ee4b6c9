"""What happens in a training step: values followed through the code that runs in it, and the events they cause."""
