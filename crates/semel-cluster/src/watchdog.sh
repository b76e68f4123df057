# Ends what a directory is about, a server for example, and removes it once nobody needs it any more. Everything ends this
# way, whether its guard was dropped or its process killed, so that there is one way to test.
#
#   sh -c SCRIPT watchdog HOME held                  until standard input ends: whoever held the other end is gone
#   sh -c SCRIPT watchdog HOME used PLACE SECONDS    until nobody has used PLACE for so many seconds
set -u
# Debian keeps ip where only root's PATH looks.
PATH=$PATH:/usr/sbin:/sbin
home=$1
pid_file=$home/data/postmaster.pid

# The process whose number a file begins with, if it lives. The number may belong to another process by now, but no
# other names a path in this directory.
process() {
  pid=$(head -n 1 "$1") && [ -n "$pid" ] && tr '\0' ' ' <"/proc/$pid/cmdline" | grep -qF "$home/" && echo "$pid"
}

postmaster() { process "$pid_file"; }

# Every process that was started here has its number in a file of its own.
alive() {
  for file in "$home"/*.pid; do
    if process "$file" >/dev/null; then return 0; fi
  done
  return 1
}

# SIGQUIT is PostgreSQL's immediate shutdown. A stopped postmaster has to be woken to hear it.
stop_postmaster() {
  pid=$(postmaster) || return 0
  kill -QUIT "$pid"
  kill -CONT "$pid"
  rounds=0
  while postmaster >/dev/null; do
    rounds=$((rounds + 1))
    if [ "$rounds" -gt 200 ]; then kill -KILL "$pid"; return; fi
    sleep 0.05
  done
}

# A postmaster that was killed leaves its file, and a piece of System V memory whose number stands in it.
remove_memory() {
  memory=$(sed -n '7s/.* //p' "$pid_file")
  if [ -n "$memory" ]; then ipcrm --shmem-id "$memory"; fi
}

# Servers that are one process have nothing to lose: their data goes with them.
stop_others() {
  for file in "$home"/*.pid; do
    if pid=$(process "$file"); then kill -KILL "$pid"; fi
  done
}

# A network namespace, and this machine's end of its cable.
remove_namespace() {
  if [ -f "$home/namespace" ]; then
    name=$(cat "$home/namespace")
    ip link delete "$name"
    ip netns delete "$name"
  fi
}

end() {
  # Before the others, for it has children to take along.
  stop_postmaster
  stop_others
  remove_namespace
  remove_memory
  # A process that was killed may still be making files.
  rm -rf -- "$home" || { sleep 0.5; rm -rf -- "$home"; }
}

while_held() { cat >/dev/null; }

# Users hold a shared lock on PLACE/used while they live, and touch it. Those that start hold PLACE/lock, and so do we
# while we decide, so nobody begins to use what is being removed.
while_used() {
  place=$1
  limit=$2
  exec 8<"$place/used" 9<"$place/lock"
  while sleep $((limit / 12 + 1)); do
    flock --nonblock 9 || continue
    alive || break
    if flock --nonblock 8 && [ $(($(date +%s) - $(stat --dereference --format=%Y /dev/fd/8))) -ge "$limit" ]; then break; fi
    flock --unlock 8
    flock --unlock 9
  done
  if [ "$(cat "$place/home")" = "$home" ]; then rm -f "$place/home"; fi
}

case $2 in
  held) while_held ;;
  used) while_used "$3" "$4" ;;
esac
end
