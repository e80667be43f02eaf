package runview

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

func TestAskCommand_IsWhatPeopleType(t *testing.T) {
	t.Parallel()
	for want, ask := range map[string]queue.Ask{
		"oarlock cancel 41":                               {Verb: dagrun.VerbCancel},
		"oarlock cancel 41 --now":                         {Verb: dagrun.VerbCancel, Now: true},
		"oarlock cancel 41 'resize/a b'":                  {Verb: dagrun.VerbCancel, Step: "resize", Item: "a b"},
		"oarlock pause 41 load":                           {Verb: dagrun.VerbPause, Step: "load"},
		"oarlock resume 41":                               {Verb: dagrun.VerbResume},
		"oarlock retry 41":                                {Verb: dagrun.VerbRetry},
		"oarlock retry 41 --all":                          {Verb: dagrun.VerbRetry, Mode: dagrun.RetryAll},
		"oarlock retry 41 --from load":                    {Verb: dagrun.VerbRetry, Mode: dagrun.RetryFrom, Step: "load"},
		"oarlock retry 41 --step resize/eu":               {Verb: dagrun.VerbRetry, Mode: dagrun.RetryStep, Step: "resize", Item: "eu"},
		"oarlock approve 41 confirm":                      {Verb: dagrun.VerbApprove, Step: "confirm"},
		"oarlock approve 41 confirm -i a=1 -i ticket=T":   {Verb: dagrun.VerbApprove, Step: "confirm", Outputs: map[string]string{"ticket": "T", "a": "1"}},
		"oarlock reject 41 confirm --comment 'wrong day'": {Verb: dagrun.VerbReject, Step: "confirm", Reason: "wrong day"},
		"oarlock mark 41 load --as succeeded --value n=7 --value $'t=a\\nb' --value-json 'l=[1]' --value-json no=null --value-json rows=7": {
			Verb: dagrun.VerbMark, Step: "load", As: dagrun.TaskSucceeded, Outputs: json.RawMessage(`{"n":"7","rows":7,"l":[1],"t":"a\nb","no":null}`),
		},
	} {
		ask.Run = 41
		if diff := cmp.Diff(want, AskCommand(&ask)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestRefusalText_NamesRunAndStep(t *testing.T) {
	t.Parallel()
	c := &queue.Control{Run: 41, Step: "load", Verb: dagrun.VerbRetry, Outcome: dagrun.Refused}
	for message, want := range map[string]string{
		"the step is succeeded: repeat it together with others (oarlock retry RUN --from STEP)": "run 41 load: the step is succeeded: repeat it together with others (oarlock retry 41 --from load)",
		"the step is running: retry an item of it (--step STEP/ITEM), or wait for its end":      "run 41 load: the step is running: retry an item of it (--step load/ITEM), or wait for its end",
	} {
		if c.Message = message; RefusalText(c) != want {
			t.Errorf("%s", RefusalText(c))
		}
	}
}
