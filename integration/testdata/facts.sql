SELECT count(*), sum(facts) FROM daily_facts
