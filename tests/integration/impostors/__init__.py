"""An app whose redq_scheduler and redq_consume do what a test of redq_devserver wants to see."""
