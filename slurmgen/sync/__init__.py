"""Which files of a project are sent to the cluster, and how."""
