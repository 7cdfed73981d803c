# Removes what a cluster has made when the process that runs it is gone. Its
# input is a pipe that this process holds open: a line means that everything
# has been removed already, the end of the input that the process was killed.
dir=$1
trap '' HUP INT TERM QUIT
read -r word && exit 0

# A node that is being started cannot enter the renamed folder, and gives up.
mv "$dir/pids" "$dir/ending" || exit 1
# Whether a node is left. A zombie that nobody reaps counts, hence the limit below.
alive() {
	for file in "$dir"/ending/*; do
		[ -f "$file" ] && read -r pid <"$file" && kill -0 "-$pid" 2>/dev/null && return 0
	done
	return 1
}
for file in "$dir"/ending/*; do
	[ -f "$file" ] && read -r pid <"$file" && kill -9 "-$pid" 2>/dev/null
done
tries=0
while alive && [ "$tries" -lt 100 ]; do
	sleep 0.1
	tries=$((tries + 1))
done
[ -f "$dir/cgroups" ] && while read -r group; do
	rmdir "$group" 2>/dev/null
done <"$dir/cgroups"
rm -rf "$dir"
