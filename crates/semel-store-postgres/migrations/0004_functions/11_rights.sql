-- Nobody may call anything here who was not allowed to: that a role may look into the schema must not let it publish.
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA semel FROM PUBLIC;
