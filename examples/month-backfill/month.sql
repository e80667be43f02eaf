-- Fills in October for daily-report.yaml, four days at a time, below the runs of today in priority. The report of a day is due on the
-- next one, so these are the times from October 2nd to November 1st. First the outcome for each day, as a trial:
-- `fires`, or `skipped` with the reason, such as a run of that day that succeeded.
SELECT logical_at, outcome, run, reason
  FROM oarlock.backfill_times('daily-report', 'daily', '2026-10-02 00:00 Europe/Paris', '2026-11-02 00:00 Europe/Paris');

-- Returns the number of the backfill. Days that have a run already are skipped: reprocess => 'all' runs them again, 'failed' only those
-- with a failed run.
SELECT oarlock.backfill('daily-report', 'daily', '2026-10-02 00:00 Europe/Paris', '2026-11-02 00:00 Europe/Paris', at_once => 4);
