# What scripts/sanitize and scripts/aarch64 share: finding, compiling and linking what the drivers of native/sanitize drive. To be
# sourced in the project's folder. ccache, where it is installed, remembers what was compiled before.
# shellcheck shell=bash

drivers=(native/sanitize/drive_*.c)

# The compiler $1, through ccache where that is.
cached() { if command -v ccache >/dev/null; then echo "ccache $1"; else echo "$1"; fi; }

# Prints the C files that the drivers may need, by compiler $1: the partners of the headers that they include, of the headers that those
# include, and so on. A file that is missing here is missed by the linker.
core_of_drivers() {
    local -A known=()
    local waiting=("${drivers[@]}") partners file
    while (( ${#waiting[@]} )); do
        for file in "${waiting[@]}"; do known[$file]=1; done
        partners=$($1 -MM -Inative "${waiting[@]}" | tr ' ' '\n' | sed -n 's/\.h$/.c/p' | sort -u)
        waiting=()
        for file in $partners; do
            [[ ! -e $file || -n ${known[$file]:-} ]] || waiting+=("$file")
        done
    done
    printf '%s\n' "${!known[@]}" | grep -v '^native/sanitize/' | sort
}

# Prints every C file of the core that is no driver's, and knows no Python.
whole_core() { find native -mindepth 2 -name '*.c' -not -path 'native/sanitize/*' -not -path 'native/python/*' | LC_ALL=C sort; }

# Compiles the C files that come on standard input into $2/core.a, and each driver into a program in $2, with the compiler and flags
# $1; ${@:3} is for the linker. Objects that are in $2/core already belong to the core too.
build_drivers() {
    local command=$1 folder=$2 driver name
    mkdir -p "$folder/core"
    while read -r driver; do
        name=${driver#native/}
        printf '%s -c %s -o %s\n' "$command" "$driver" "$folder/core/${name//\//.}.o"
    done | xargs -P "$(nproc)" -d '\n' -n 1 bash -c
    "${ar:-ar}" rcs "$folder/core.a" "$folder"/core/*.o
    for driver in "${drivers[@]}"; do
        printf '%s %s %s -pthread %s -o %s\n' "$command" "$driver" "$folder/core.a" "${*:3}" "$folder/$(basename "$driver" .c)"
    done | xargs -P "$(nproc)" -d '\n' -n 1 bash -c
}
