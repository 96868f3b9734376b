"""Account mapping: rules, attachments and claims that decide to which entry an account's usage belongs."""
