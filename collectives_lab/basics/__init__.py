"""What every room may use: errors, units, tables, devices, trees over ranks."""
