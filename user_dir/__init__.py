"""What ``--user-dir user_dir`` points fairseq at: it registers the criterion and architectures."""

from simile_plugin import architectures as architectures
from simile_plugin import criterion as criterion
