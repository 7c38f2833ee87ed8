"""The site: hand-written pages of docs/, pages generated from the policy, and checks of the result."""
