SELECT name || ' in ' || timezone FROM oarlock.schedule_list('tenant-report') WHERE next_at > now() AND params ->> 'tenant' = name ORDER BY name
