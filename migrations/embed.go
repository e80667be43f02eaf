package migrations

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
)

//go:embed versions/*.sql
var versionFiles embed.FS

//go:embed setup/*.sql
var setupFiles embed.FS

// setupSQL returns the text of a file of setup/, named without ".sql". It panics if there is none, which shows when the package is
// loaded.
func setupSQL(name string) string {
	text, err := setupFiles.ReadFile("setup/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	return string(text)
}

// names and programsFrom are the name and the ProgramsFrom of each migration by version: of the files, and of the migration in Go.
var names, programsFrom = listMigrations()

// kept matches the line by which a migration declares that it changes nothing that programs of this schema version and newer use:
// they go on while it is applied, and after it. Without that line, only programs that know the migration work with the schema.
var kept = regexp.MustCompile(`(?m)^` + keptBegins + `(\d+) work with it\.$`)

const keptBegins = "-- Programs from version "

func listMigrations() (names map[int64]string, from map[int64]int64) {
	files, err := fs.Glob(versionFiles, "versions/*.sql")
	if err != nil {
		panic(err)
	}
	names = map[int64]string{riverMigration: fmt.Sprintf("%05d_river", riverMigration)}
	from = map[int64]int64{riverMigration: riverMigration}
	for _, file := range files {
		version, err := goose.NumericComponent(file)
		if err != nil || names[version] != "" {
			panic(fmt.Sprintf("migrations/%s: the number is missing or taken: %v", file, err))
		}
		text, err := versionFiles.ReadFile(file)
		if err != nil {
			panic(err)
		}
		names[version] = strings.TrimSuffix(path.Base(file), ".sql")
		from[version] = version
		// Every process lists the migrations at its start. It would take 7 ms to match them all, and takes none to find the few.
		if !bytes.Contains(text, []byte(keptBegins)) {
			continue
		}
		if said := kept.FindSubmatch(text); said != nil {
			from[version], _ = strconv.ParseInt(string(said[1]), 10, 64)
		}
	}
	return names, from
}

func nameOf(version int64) string {
	if name, ok := names[version]; ok {
		return name
	}
	return "unknown"
}

// Hash returns a hash of all migrations, which changes whenever the result of Up may change. Templates of test databases have it in
// their names.
func Hash() string {
	sum := sha256.New()
	for _, fsys := range []fs.FS{versionFiles, setupFiles} {
		err := fs.WalkDir(fsys, ".", func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := fs.ReadFile(fsys, file)
			fmt.Fprintf(sum, "%s %d\n%s", file, len(text), text)
			return err
		})
		if err != nil {
			panic(err)
		}
	}
	for _, m := range riverBundle() {
		fmt.Fprintf(sum, "river %d %d\n%s", m.Version, len(m.SQLUp), m.SQLUp)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}
