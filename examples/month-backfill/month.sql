-- Makes the reports of October for daily-report.yaml, four days at a time, with a lower priority than the runs of today. The report of a
-- day is due on the next day, so these are the times from October 2nd to November 1st. This query shows the outcome for each day and
-- makes nothing: `fires`, or `skipped` with the reason, such as a run of that day that succeeded.
SELECT logical_at, outcome, run, reason
  FROM oarlock.backfill_times('daily-report', 'daily', '2026-10-02 00:00 Europe/Paris', '2026-11-02 00:00 Europe/Paris');

-- Makes the runs, and returns the number of the backfill. Days with a good or unfinished run are skipped. reprocess => 'all' runs every
-- day again, reprocess => 'failed' runs a day again if its newest run failed or was canceled.
SELECT oarlock.backfill('daily-report', 'daily', '2026-10-02 00:00 Europe/Paris', '2026-11-02 00:00 Europe/Paris', at_once => 4);
