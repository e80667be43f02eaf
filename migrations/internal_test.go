package migrations

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestMaxVersion_IsTheNewestMigration(t *testing.T) {
	t.Parallel()
	versions := slices.Sorted(maps.Keys(names))
	for i, version := range versions {
		if version != int64(i)+firstVersion {
			t.Errorf("migration %d is missing", i+firstVersion)
		}
	}
	if newest := versions[len(versions)-1]; newest != MaxVersion || MinVersion > MaxVersion || MinVersion < firstVersion {
		t.Errorf("the newest migration is %d, the range is %d to %d", newest, MinVersion, MaxVersion)
	}
}

// Programs that one migration excludes, no later migration admits again: after several migrations at once, the line of the last
// counts.
func TestProgramsFrom_NeverGoesBack(t *testing.T) {
	t.Parallel()
	for version := int64(firstVersion); version <= MaxVersion; version++ {
		if from := programsFrom[version]; from < programsFrom[version-1] || from > version {
			t.Errorf("migration %d is for programs from %d on, the one before for those from %d on", version, from, programsFrom[version-1])
		}
	}
	if said := kept.FindStringSubmatch("-- +goose Up\n-- Programs from version 16 work with it.\n"); len(said) != 2 || said[1] != "16" {
		t.Errorf("the line of a migration reads %q", said)
	}
}

func TestSchema_IsCheckedAgainstThisProgram(t *testing.T) {
	t.Parallel()
	for s, fits := range map[Schema]bool{
		{}: false, {MaxVersion - 1, MaxVersion - 1}: false, {MaxVersion, MaxVersion}: true, {MaxVersion, MaxVersion - 3}: true,
		{MaxVersion + 1, MaxVersion + 1}: false, {MaxVersion + 1, MaxVersion}: true, {MaxVersion + 9, MaxVersion - 1}: true,
	} {
		if err := s.Check(); fits != (err == nil) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func TestRiver_NewestVersionIsTheOneWeBring(t *testing.T) {
	t.Parallel()
	migrator, err := newRiverMigrator(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	all := migrator.AllVersions()
	if newest := all[len(all)-1].Version; newest != riverVersion {
		t.Errorf("River has schema version %d by now, we bring %d: add a migration", newest, riverVersion)
	}
}

func TestHash_IsStable(t *testing.T) {
	t.Parallel()
	if a, b := Hash(), Hash(); a != b || len(a) != 16 {
		t.Errorf("hashes %q and %q", a, b)
	}
}

func TestRefuseServer_ByVersionAndMode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version           int
		standby, readOnly bool
		want              error
	}{
		{130022, false, false, ErrServerTooOld},
		{90624, true, true, ErrServerTooOld},
		{140000, false, false, nil},
		{180001, false, false, nil},
		{150018, true, true, ErrReadOnly},
		{150018, false, true, ErrReadOnlySession},
	} {
		if err := refuseServer(c.version, c.standby, c.readOnly); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := refuseServer(130022, false, false); !strings.Contains(err.Error(), "version 13, Oarlock needs 14") {
		t.Errorf("the error names no versions: %v", err)
	}
}

func TestVersionError_SaysWhatToDo(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]VersionError{
		"no Oarlock schema: run `up`":                                   {Have: 0, Min: 3, Max: 5, Command: "up"},
		"schema version 2, this binary needs 3 to 5: run `up`":          {Have: 2, Min: 3, Max: 5, Command: "up"},
		"schema version 2, this binary needs 3: run `up`":               {Have: 2, Min: 3, Max: 3, Command: "up"},
		"schema version 9, this binary works with 3 to 5: upgrade this": {Have: 9, Min: 3, Max: 5},
	} {
		if got := e.Error(); !strings.Contains(got, want) {
			t.Errorf("%q does not hold %q", got, want)
		}
	}
}

func TestRolesSQL_NamesTheMigratorWhoeverRunsIt(t *testing.T) {
	t.Parallel()
	if n := strings.Count(strings.Join(rolesParts, "\n"), migratorLine); n != 1 {
		t.Errorf("the line %q is there %d times", migratorLine, n)
	}
	if got := rolesSQL(quoteLiteral("o'hara")); !strings.Contains(got, "migrator name := 'o''hara';") {
		t.Error("the user is not named")
	}
	if !strings.Contains(RolesSQL(), "CURRENT_USER") {
		t.Error("the user who runs it is not named")
	}
}
