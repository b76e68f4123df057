# The directory of a server that was stopped in order, with some jobs.
set -euo pipefail
source "$(dirname "$0")/store.sh"
kill -TERM %1
wait %1
