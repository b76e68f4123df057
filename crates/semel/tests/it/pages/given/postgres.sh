# A PostgreSQL that listens on its usual port and trusts everybody, with the role `semel`.
set -euo pipefail
bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
data=/var/lib/page-postgres
install -d -o postgres "$data"
cd "$data"
runuser -u postgres -- "$bin/initdb" --no-sync --auth=trust --encoding=UTF8 --locale=C --pgdata="$data" >/dev/null
runuser -u postgres -- "$bin/pg_ctl" --pgdata="$data" --log="$data/log" --wait --options="-k $data" start >/dev/null
ln -s "$bin/createdb" "$bin/psql" "$HOME/.bin/"
"$bin/psql" --quiet --host=db --username=postgres --dbname=postgres --command='CREATE ROLE semel SUPERUSER LOGIN'
