package cluster

import "testing"

// scenarios need nothing of each other.
var scenarios = []scenario{
	{"ScalesOnPods", scalesOnPods},
	{"WalksThroughTheReadme", walksThroughTheReadme},
	{"ScalesOnAnObject", scalesOnAnObject},
	{"ScalesOnRollUps", scalesOnRollUps},
	{"ScalesOnAnExternal", scalesOnAnExternal},
	{"ScalesOnANamespace", scalesOnANamespace},
	{"ScalesOnLatency", scalesOnLatency},
	{"ScalesOnARatio", scalesOnARatio},
	{"RefusesBadRules", refusesBadRules},
	{"RefusesTheSixthMetric", refusesTheSixthMetric},
	{"AdmitsWhatAnAutoscalerNames", admitsWhatAnAutoscalerNames},
	{"TellsOfAMissingMetric", tellsOfAMissingMetric},
	{"NoticesALostMetric", noticesALostMetric},
	{"CreditsFirstDatagrams", creditsFirstDatagrams},
	{"CreditsTheNextHolderOfAnAddress", creditsTheNextHolderOfAnAddress},
	{"ForgetsAFinishedPod", forgetsAFinishedPod},
	{"ReportsBadLimitRanges", reportsBadLimitRanges},
	{"BelievesNoStranger", believesNoStranger},
	{"BelievesNoStrangersController", believesNoStrangersController},
	{"RightsPerMetric", rightsPerMetric},
	{"KubectlIsAtHome", kubectlIsAtHome},
	{"ShowsAutoscalersInABrowser", showsAutoscalersInABrowser},
	{"ListsWhatIsThere", listsWhatIsThere},
	{"TakesWhatAPushgatewayTakes", takesWhatAPushgatewayTakes},
	{"TokensOpenTheirNamespace", tokensOpenTheirNamespace},
	{"ReadsBySeriesRight", readsBySeriesRight},
	{"BoundTokensNameTheirPod", boundTokensNameTheirPod},
	{"EndsWithItsNamespace", endsWithItsNamespace},
}

type scenario struct {
	name string
	run  func(*testing.T, *cluster)
}

// sideBySide runs scenarios at once, and waits until all have ended.
func (c *cluster) sideBySide(t *testing.T, all []scenario) {
	t.Run("scenarios", func(t *testing.T) {
		for _, one := range all {
			t.Run(one.name, func(t *testing.T) {
				t.Parallel()
				one.run(t, c)
			})
		}
	})
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := install(t)
	c.sideBySide(t, scenarios)
	t.Run("SurvivesAKill", func(t *testing.T) { survivesAKill(t, c) })
	t.Run("RemembersAcrossAKill", func(t *testing.T) { remembersAcrossAKill(t, c) })
	t.Run("NamesChangeHands", func(t *testing.T) { namesChangeHands(t, c) })
}
