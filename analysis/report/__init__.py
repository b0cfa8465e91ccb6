"""The report: one page that needs nothing but itself. `page` renders what the others gather."""
