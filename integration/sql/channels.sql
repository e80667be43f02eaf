SELECT DISTINCT channel FROM oarlock.workers
