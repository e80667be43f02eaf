# Runs one PostgreSQL server as long as it has users.
#
#   sh supervise.sh MARK HOST TRASH SOCKETS DATA postgres ARGS…     with the lifeline's read end as fd 3
#
# Every user holds the lifeline open for writing, and sends a line when it joins. End of file means that no user is
# left. The supervisor then makes MARK and reads the lifeline once more, because a user may have joined in between:
# that user waits as long as it sees MARK. HOST is a process that also counts as a user, or empty. TRASH and SOCKETS
# are removed at the end, if they are not empty.
mark=$1 host=$2 trash=$3 sockets=$4 data=$5
shift 5

"$@" 3<&- &
server=$!
exec >/dev/null 2>&1

hosted() {
    [ -n "$host" ] || return 1
    # A working folder in /proc stays tied to its process, even if another process gets the same number.
    if [ -d /proc/self ]; then [ -e stat ]; else ps -p "$host"; fi
}

# The supervisor signals a process only if it is the server: the parent shell still has it as its child, or the
# server's pid file names it. Another process may have the same number by now.
ours() { kill -0 "$$" || [ "$(head -n 1 "$data/postmaster.pid")" = "$server" ]; }

watch() {
    [ -z "$host" ] || cd "/proc/$host" || :
    while :; do
        while read -r _ <&3; do [ ! -e "$mark" ] || rm -f "$mark"; done
        if hosted; then
            sleep 0.2 3<&-
        elif [ -e "$mark" ]; then
            break
        else
            : >"$mark"
        fi
    done
    while ours && kill -INT "$server"; do sleep 0.2 3<&-; done
}

watch &
watcher=$!
trap 'kill -INT "$server"' HUP TERM
while kill -0 "$server"; do wait "$server"; done
# If the server died while it had users, the folder stays for them. The folder is renamed before it is removed, so that
# its name is free at once.
if [ -n "$trash" ] && [ -e "$mark" ]; then
    mv "$trash" "$trash.gone" && trash=$trash.gone
    rm -rf "$trash"
fi
[ -z "$sockets" ] || rm -rf "$sockets"
kill "$watcher"
