"""What every room uses: values, errors, text, times, files and the lifecycle port. It knows no memory."""
