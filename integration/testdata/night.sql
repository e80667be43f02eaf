SELECT oarlock.trigger_schedule('nightly-catchup', 'nightly', '2026-11-20T02:30:00Z')
