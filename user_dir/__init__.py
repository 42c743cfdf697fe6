"""What ``--user-dir user_dir`` points fairseq at: it registers the criterion, nothing else."""

from simile_plugin import criterion as criterion
