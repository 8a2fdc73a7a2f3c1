"""SSH, through paramiko or the OpenSSH client."""
